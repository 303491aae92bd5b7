<?xml version="1.0" encoding="UTF-8"?>
<!-- Turns orders into positions: one for each symbol, with its lots. docs/xslt.md runs it. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
    xmlns:m="http://services.samples/xsd" exclude-result-prefixes="m">
  <xsl:import href="money.xslt"/>
  <xsl:output indent="yes"/>
  <xsl:param name="currency">USD</xsl:param>
  <xsl:key name="by-symbol" match="order" use="symbol"/>

  <xsl:template match="/m:buyStocks">
    <positions currency="{$currency}">
      <!-- One position for the first order of each symbol. -->
      <xsl:apply-templates select="order[generate-id() = generate-id(key('by-symbol', symbol)[1])]">
        <xsl:sort select="symbol"/>
      </xsl:apply-templates>
    </positions>
  </xsl:template>

  <xsl:template match="order">
    <xsl:variable name="all" select="key('by-symbol', symbol)"/>
    <position symbol="{symbol}" volume="{sum($all/volume)}">
      <xsl:for-each select="$all">
        <lot buyer="{buyerID}">
          <xsl:call-template name="amount">
            <xsl:with-param name="of" select="price * volume"/>
          </xsl:call-template>
        </lot>
      </xsl:for-each>
    </position>
  </xsl:template>
</xsl:stylesheet>
