<xsl:stylesheet version="2.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:m0="http://services.samples/xsd" exclude-result-prefixes="m0">
  <xsl:output method="xml" omit-xml-declaration="no" indent="no"/>
  <xsl:template match="@* | node()">
    <xsl:copy>
      <xsl:apply-templates select="@* | node()"/>
    </xsl:copy>
  </xsl:template>
  <xsl:template match="m0:buyStocks">
    <m:skcotSyub xmlns:m="http://services.samples/xsd">
      <xsl:for-each select="order">
        <redro>
          <lobmys><xsl:value-of select="symbol"/></lobmys>
          <DIreyub><xsl:value-of select="buyerID"/></DIreyub>
          <ecirp><xsl:value-of select="price"/></ecirp>
          <emulov><xsl:value-of select="volume"/></emulov>
        </redro>
      </xsl:for-each>
    </m:skcotSyub>
  </xsl:template>
</xsl:stylesheet>
