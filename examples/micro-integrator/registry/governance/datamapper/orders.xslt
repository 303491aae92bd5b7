<xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:m="http://services.samples/xsd" version="2.0">
  <xsl:output method="xml" indent="no"/>
  <xsl:template match="m:buyStocks">
    <m:buyStocks>
      <xsl:for-each select="order">
        <order>
          <symbol>XYZ</symbol>
          <buyerID>
            <xsl:value-of select="buyerID"/>
          </buyerID>
          <price>
            <xsl:value-of select="number(price)"/>
          </price>
          <volume>
            <xsl:value-of select="number(volume)"/>
          </volume>
        </order>
      </xsl:for-each>
    </m:buyStocks>
  </xsl:template>
</xsl:stylesheet>
