<?xml version="1.0" encoding="UTF-8"?>
<!-- The format of amounts, for import. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:decimal-format name="money" decimal-separator="." grouping-separator=","/>
  <xsl:template name="amount">
    <xsl:param name="of"/>
    <xsl:value-of select="format-number($of, '#,##0.00', 'money')"/>
  </xsl:template>
</xsl:stylesheet>
